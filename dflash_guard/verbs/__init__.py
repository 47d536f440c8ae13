"""What one can do with data: each verb ties the rooms below together, in a page of code."""
