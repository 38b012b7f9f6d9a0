"""Manifests as pure functions of the spec. Claims appear only as templates: nobody here owns or deletes one."""
