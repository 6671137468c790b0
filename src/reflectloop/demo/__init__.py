"""The bundled stories: a sample project, a wrong fix, a leak, the right fix; and the same bug left to agents."""
