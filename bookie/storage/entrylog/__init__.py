"""Entry logs: the files that hold entries. Checkpoints write them sorted; reads go by location;
a log goes as a whole."""
