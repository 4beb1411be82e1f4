"""Enrolls an identity with the native SDK: token file in, identity file out."""

import argparse
import os

import openziti

import outcome

args = argparse.ArgumentParser(description=__doc__)
args.add_argument("--jwt", required=True, help="enrollment token file")
args.add_argument("--out", required=True, help="identity file to write")
args.add_argument("--timeout", type=float, default=60)
args = args.parse_args()


def enroll():
    identity = openziti.enroll(args.jwt)
    with open(os.open(args.out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(identity)
    return {}


outcome.run("enroll", args.timeout, enroll)
