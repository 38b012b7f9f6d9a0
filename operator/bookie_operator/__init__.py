"""The control plane: `BookieCluster` resources in, StatefulSets, evidence and grants out. Imports nothing."""
