"""History of an application's state: the versions that its runs leave one after the other, and the lease to add one."""
