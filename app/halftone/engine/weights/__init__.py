"""Where weights lie and in which type they compute: mapped, packed, offloaded, in FP8, cast at a region's borders."""
