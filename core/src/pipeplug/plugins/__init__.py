"""Finding plugins: operators are entry points that are looked up by name, hooks are answered by every plugin.

Nothing is imported here: listing the operators must not pay for pluggy and packaging.
"""
