"""Less data: which columns are used and which rows can be left out, found from the application and never changing a result."""
