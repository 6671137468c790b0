"""The bundled story: a sample project, a wrong fix, a leak, the right fix."""
