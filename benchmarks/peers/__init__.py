"""The other side: what people use today, at its best settings. A module a package."""
