"""The state that an application carries from run to run: its versions, its lease, its sweep."""
