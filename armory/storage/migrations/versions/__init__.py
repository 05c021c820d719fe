"""One file a step, applied in order; a step that was released is never edited."""
