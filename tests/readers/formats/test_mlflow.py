"""MLflow stores: no link leads out of the folder."""

from __future__ import annotations

import json

from helpers import log_files
from helpers.log_files import receipt
from rlscaling import read_trace


def test_mlflow_file_store_does_not_follow_links_out_of_the_folder(tmp_path):
    store = log_files.mlflow_folder(tmp_path, log_files.verl_rows(steps=20, every=10))
    run = next(store.glob("*/*/metrics")).parent
    secret = tmp_path / "secret"
    secret.write_text("1 0.99 5\n")
    (run / "metrics" / "stolen").symlink_to(secret)
    known = receipt(read_trace(store))
    assert "stolen" not in json.dumps(known)
    assert "secret" not in json.dumps(known)
