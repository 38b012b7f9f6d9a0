"""`bookie.admin.v1`: the control plane's language. `admin.proto` and its generated stubs, nothing else.

Generated files are made by `make proto` and kept in the tree, so that installing needs no compiler; a tidy test
holds them equal to the text. Imported by `bookie.runtime.admin` and by the operator's gateway only.
"""
