"""The Pregel machine: tasks run in steps over a frozen snapshot; channels fold at the boundary."""
