"""In-band control messages and their bookkeeping: end-of-stream and watermarks. Pure: no I/O."""
