"""Names of jobs: no two are alike, in whichever process they were made."""

import uuid


def new_job_id() -> str:
    return uuid.uuid4().hex[:12]
