"""Ends with status 0 where the version that would start has its environment, so that no set-up needs to be shown."""

import os
import sys

from installer import places, start, versions

root = versions.choose(places.ROOT, os.environ).path or places.ROOT
want = places.wanted(dev=False, folder=os.path.join(root, "installer"))
sys.exit(start.find_ready(want, os.environ) is None)
