"""One narrow row for each sample: what SQL and the token scan say of it, and nothing of whether that is right."""
