"""Manifests as pure functions of the spec. Claims appear only as templates: no object here owns or deletes one."""
