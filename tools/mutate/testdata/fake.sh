#!/bin/sh
# A test binary for the tests: what it does is written beside the name that it is run by. A file that a
# test writes cannot always be run at once, since another test may just be starting a process.
. "$0.case"
