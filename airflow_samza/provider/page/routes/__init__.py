"""The routes of the page, a module per view; all of them only read."""
