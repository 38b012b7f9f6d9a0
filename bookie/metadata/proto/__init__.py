"""Records of the metadata store as protocol buffers; `metadata_pb2` is generated from `metadata.proto`."""
