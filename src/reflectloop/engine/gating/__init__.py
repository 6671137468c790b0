"""What gates and sealed verification need from the disk, and what they leave there."""
