"""The command line: `bookie NOUN VERB --long-flags`. The only place that reads files, environment and flags.

Data goes to stdout, messages go to stderr. A noun's module adds its verbs (`add_verbs`), each with its function.
"""
