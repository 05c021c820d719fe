"""A folder on disk whose folders with a SKILL.md are skills."""
