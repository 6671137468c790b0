"""Diagnosis of failures and reflection on them: causes and next steps. Runs nothing and stores nothing."""
