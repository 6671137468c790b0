"""The REQ/RES protocol: an agent or a script acts on a workspace by validated requests, and in no other way."""
