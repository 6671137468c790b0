"""The built-in demos: a sample project, a wrong fix, a leak, the right fix; and the same bug fixed by agents."""
