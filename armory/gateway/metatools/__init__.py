"""The tools that Armory adds to a listing."""
