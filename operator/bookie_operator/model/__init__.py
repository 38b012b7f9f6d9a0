"""Desired state and status as typed models: the one source of the CRD. Pure; knows no API server and no clock."""
