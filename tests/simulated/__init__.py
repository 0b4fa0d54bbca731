"""Seeded schedules of the dataplane under a virtual clock: no threads, no sockets, no time that passes."""
