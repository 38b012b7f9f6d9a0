"""What the metadata store holds: ledger metadata, cookies, registrations, and the paths of all of them. Pure."""
