"""A folder on disk whose subfolders with a SKILL.md are served as skills."""
