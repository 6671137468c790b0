"""Works on tasks unattended: decides what comes next, starts sessions, lands proven work, reports in the morning."""
