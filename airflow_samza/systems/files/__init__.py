"""The system ``files``: bounded inputs and outputs as ordinary files on any path."""
