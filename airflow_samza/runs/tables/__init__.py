"""Tables that are pushed: requests, versions, pins, compactions."""
