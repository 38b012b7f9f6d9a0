"""`bookie.admin.v1`, the control plane's language: `admin.proto` with its generated stubs, the translation between them
and `ports.admin` (`encoding`), and the two clients of an admin port (`client`, which asks what `calls` lists).

Generated files are made by `make proto` and kept in the tree, so that installing needs no compiler; a tidy test
holds them equal to the text. The server of this language is `bookie.runtime.admin`.
"""
