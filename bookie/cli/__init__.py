"""The command line: `bookie NOUN VERB --long-flags`. The only place that reads files, environment and flags.

Data goes to stdout, talk to stderr. Each module adds its own commands (`add_parser`) and runs them (`run`).
"""
