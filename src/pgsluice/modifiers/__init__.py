"""What may change on the way: DataFrame to DataFrame."""
