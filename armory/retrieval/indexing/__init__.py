"""From a catalogue to something that can be searched."""
