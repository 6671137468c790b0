"""The protocols models speak: pure translation, and one module that opens connections."""
