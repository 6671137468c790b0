"""Probe changed functions of JavaScript: find them, record the tests' calls, and repeat these in bare Node.js."""
