"""A ComfyUI node that shows what Halftone finds in a checkpoint. Installed by copying this folder into `custom_nodes`."""

import os

from .halftone_caller import report


class HalftoneCheck:
    """Checks the file that a loader node loads. The result is text, for the node Preview Any."""

    CATEGORY = "Halftone"
    DESCRIPTION = "Finds the layers of a checkpoint that overflow in half precision, and says what to set in ComfyUI."
    RETURN_TYPES = ("STRING",)
    RETURN_NAMES = ("finding",)
    FUNCTION = "check"
    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls):
        import folder_paths

        return {
            "required": {"ckpt_name": (folder_paths.get_filename_list("checkpoints"), {"tooltip": "The file to check."})},
            "optional": {
                "device": (["auto", "cpu"], {"default": "auto", "tooltip": "cpu needs no video memory, and more time."}),
                "seconds": ("INT", {"default": 900, "min": 10, "max": 86400, "tooltip": "The check is stopped after this time."}),
            },
        }

    @classmethod
    def IS_CHANGED(cls, ckpt_name, **_others):
        import folder_paths

        found = os.stat(folder_paths.get_full_path_or_raise("checkpoints", ckpt_name))
        return f"{found.st_size}-{found.st_mtime_ns}"

    def check(self, ckpt_name, device="auto", seconds=900):
        import folder_paths

        path = folder_paths.get_full_path_or_raise("checkpoints", ckpt_name)
        text = report(path, "comfyui", device=device, seconds=seconds)
        print(f"[Halftone] {text}")
        return {"ui": {"text": (text,)}, "result": (text,)}


NODE_CLASS_MAPPINGS = {"HalftoneCheck": HalftoneCheck}
NODE_DISPLAY_NAME_MAPPINGS = {"HalftoneCheck": "Halftone check"}
