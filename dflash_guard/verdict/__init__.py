"""What a judgement says: rule results, failing rows, the guard folder, and the statement that binds it to the bytes."""
