"""What a data set looks like as a whole: figures, shares and common values, by SQL over its facts."""
