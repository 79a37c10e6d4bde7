"""What is said of each error: the sentence of what happened, and what the user can do in the window."""

from typing import Final

from halftone.contract.error_codes import ErrorCode

WORDS: Final[dict[ErrorCode, tuple[str, str]]] = {
    "usage": ("{problem}.", "{hint}See {command} --help."),
    "model-missing": ("There is no model at {path}.", "Check the path, or use the bundled model pocket."),
    "model-unknown": (
        "There is no model named {name}. It may have been moved or deleted.",
        "Choose {known}, or restore its file and refresh the list of models.",
    ),
    "model-empty-folder": ("The folder {path} is empty.", "Choose a diffusers model folder (with model_index.json)."),
    "model-not-a-model": (
        "Halftone cannot read {path} as a model.",
        "Choose a .safetensors file or a diffusers folder (with model_index.json).",
    ),
    "model-truncated": (
        "{path} is incomplete: {actual} of {expected} bytes.",
        "Download the file again.",
    ),
    "file-empty": ("{path} is empty.", "Download the file again."),
    "not-safetensors": ("{path} is not a safetensors file: {detail}.", "Choose another file, or download it again."),
    "model-bad-header": ("{path} has a damaged header: {detail}.", "Download the file again."),
    "model-pickle": (
        "{path} is a pickle file. Halftone does not open these: they can run code.",
        "Convert it to safetensors on the Models page, or use its .safetensors version.",
    ),
    "pickle-needs-code": (
        "{path} asks to run {name}. Halftone did not run it, and converted nothing.",
        "Use the .safetensors version of this model.",
    ),
    "pickle-no-weights": ("{path} holds no weights.", "Choose another file."),
    "pickle-not": ("{path} is {what}.", "Choose a .ckpt, .pt, .pth or .bin file."),
    "pickle-unread": (
        "{path} cannot be converted: {detail}.",
        "Download it again, or use its .safetensors version.",
    ),
    "model-incomplete": ("The model {path} lacks {missing}.", "Download the missing part again, or choose another model."),
    "model-unsupported": (
        "Halftone cannot run {path}: {detail}.",
        "Choose a whole model, as one file or as a diffusers folder.",
    ),
    "model-needs-parts": (
        "Halftone cannot run {path} alone: {detail}.",
        "Add a diffusers folder of {family}. This file runs as its transformer.",
    ),
    "model-needs-files": (
        "{path} needs one more small file: {files}.",
        "Download it, or put it into {folder}.",
    ),
    "fetch-refused": (
        "{source} requires you to accept its terms for {file}.",
        "Accept them there and set HF_TOKEN to your token.",
    ),
    "fetch-token": (
        "{source} refused {file}: {detail}.",
        "Set HF_TOKEN to a valid token, or unset it for public files.",
    ),
    "fetch-missing": ("{source} has no {file}.", "Set HF_ENDPOINT to another mirror, or find the file elsewhere."),
    "fetch-failed": (
        "Could not download {file} from {source}: {detail}.",
        "Try again, or set HF_ENDPOINT to another mirror.",
    ),
    "small-file-unfit": ("{path} cannot be used as {file}: {detail}.", "Choose the {file} of {source}, or download it."),
    "model-cannot-run": ("Halftone cannot run {path}: {detail}.", "Choose another folder or model."),
    "model-sampler-unfit": (
        "{path} cannot run with its own sampler: {pipeline} does not support {sampler}.",
        "Choose another sampler or model.",
    ),
    "model-load-failed": (
        "The model {path} could not be loaded: {detail}.",
        "See the log. Downloading it again often helps.",
    ),
    "model-parts-misfit": (
        "The parts of {model} do not fit together: {detail}.",
        "Restore the replaced part, or download the model again.",
    ),
    "model-part-failed": (
        "{model} cannot run: its {part} does not match its files or the other parts.",
        "Undo your changes to it, or download it again. See the log.",
    ),
    "places-too-few": (
        "The picture or prompt is too large for {model}.",
        "Use a smaller size or a shorter prompt.",
    ),
    "model-broken": ("{model} contains broken weights: {detail}.", "No setting can fix that. Download the file again."),
    "device-unknown": ("There is no device {device} here.", "Use {known}."),
    "device-lost": ("{device} stopped responding: {detail}.", "Finished work is kept. Try again."),
    "precision-missing": ("{device} cannot compute in {dtype}.", "Use {known}."),
    "setting-bad-value": ("{name} cannot be {value}.", "Use {allowed}."),
    "names-bad-pattern": ("{problem} The pattern {pattern} cannot name files.", "Choose another pattern."),
    "size-not-multiple": ("{name} is {value}, which is not a multiple of {multiple}.", "Use {below} or {above}."),
    "strength-too-small": (
        "{steps} steps at a strength of {value} leave no step to compute.",
        "Use a strength of at least {low}, or more steps.",
    ),
    "value-out-of-range": ("{name} cannot be {value}.", "Choose a value from {low} to {high}."),
    "prompt-no-text": ("The prompt contains bytes that are not text.", "Type it again, or set the terminal to UTF-8."),
    "prompt-too-long": (
        "The prompt is too long to store in {path}.",
        "End the name with .png, or shorten the prompt.",
    ),
    "prompt-uncomposed": (
        "This model cannot compose prompts with AND: {detail}.",
        "Write one prompt without AND and without a weight at its end.",
    ),
    "wildcard-missing": ("There is no wildcard {name}.", "Use {near}, or turn wildcards off."),
    "wildcard-none": (
        "The wildcard {name} is unknown: no folder has wildcards.",
        "Add its folder in Settings, Folders.",
    ),
    "wildcard-empty": ("The wildcard {name} has no lines: {path}.", "Write one entry per line into it."),
    "wildcard-endless": ("The wildcard {name} contains itself, or expands to too much text.", "Remove the loop from its lines."),
    "words-unreadable": ("{path} cannot be read: {detail}.", "Save it as text in UTF-8."),
    "style-too-long": (
        "The style {name} makes the prompt longer than {most} characters.",
        "Choose fewer styles, or repeat the prompt less often in the style.",
    ),
    "style-unknown": ("There is no style {name}.", "Choose {known}."),
    "styles-missing": ("There is no styles file at {path}.", "Choose a styles.csv from A1111."),
    "styles-not-one": (
        "{path} is not a styles file.",
        "Its first line must be {columns}.",
    ),
    "picture-needed": (
        "{model} needs a picture.",
        "Choose one under Image to image.",
    ),
    "mask-needed": (
        "{model} needs a mask.",
        "Paint or choose one under Image to image, white where to regenerate.",
    ),
    "mask-other-shape": (
        "The mask {path} is {own}, but the picture is {picture}.",
        "Use a mask with the same aspect ratio.",
    ),
    "mask-empty": (
        "The mask {path} is all black, so nothing would change.",
        "Paint the area to regenerate white.",
    ),
    "start-no-picture": ("{model} does not support image to image.", "Remove the picture, or choose another model."),
    "start-no-mask": ("{model} does not support inpainting or outpainting.", "Remove it, or choose another model."),
    "start-no-strength": (
        "{model} has no denoising strength.",
        "Remove the strength, or choose another model.",
    ),
    "file-missing": ("There is no file {path}.", "Check the path."),
    "image-missing": ("There is no picture at {path}.", "Check the path."),
    "picture-silent": ("{path} contains no settings.", "To use it as input, drop it on Image to image."),
    "text-silent": (
        "{path} contains no settings that Halftone reads.",
        "Choose A1111's parameters as a .txt file, a program's settings or a ComfyUI workflow as a .json file, or a picture.",
    ),
    "picture-graph": (
        "{path} comes from a ComfyUI workflow that Halftone cannot read: {detail}.",
        "Enter the settings yourself, or drop it on Image to image.",
    ),
    "picture-model-unknown": (
        "{path} needs the model {model}, which is not in your folders.",
        "Add its folder in Settings, Folders, or choose another model.",
    ),
    "picture-start-missing": (
        "{path} was made from the picture {start}, which is missing.",
        "Choose that picture under Image to image.",
    ),
    "no-right": (
        "Halftone has no permission to read {path}.",
        "Grant read permission, or copy it elsewhere.",
    ),
    "data-read-only": (
        "Halftone cannot write to its data folder {path}.",
        "Grant write permission, or set HALFTONE_DATA to another folder.",
    ),
    "video-of-pictures": ("{model} makes pictures; {name} is for videos.", "Remove it, or choose a video model."),
    "image-gone": (
        "The unfinished picture needs {path}, which is missing.",
        "Restore it, or make the picture again.",
    ),
    "input-changed": (
        "{path} changed since the unfinished picture was started.",
        "Restore it, or make the picture again.",
    ),
    "video-codec": (
        "The video {path} uses a codec that Halftone cannot decode.",
        "Convert it to H.264, or open it with another player.",
    ),
    "video-damaged": (
        "The video {path} is damaged or incomplete.",
        "Copy it again, or open it with another player.",
    ),
    "image-unreadable": ("{path} is not a readable picture.", "Choose a PNG, JPEG or WebP file."),
    "image-damaged": (
        "The picture {path} is damaged or incomplete.",
        "Copy or download it again, or choose another.",
    ),
    "image-not-read": ("The picture {path} could not be read: {detail}.", "Try again, or choose another picture."),
    "image-other-kind": ("{path} is {kind}, which Halftone cannot read.", "Choose a PNG, JPEG or WebP file."),
    "image-not-file": ("{path} is {kind}, not a picture.", "Choose a PNG, JPEG or WebP file."),
    "picture-too-large": (
        "The picture {path} exceeds {most} million pixels.",
        "Scale it down, or choose another.",
    ),
    "latents-missing": ("There are no saved latents at {path}.", "Check the path, or make the picture again with its seed."),
    "latents-unreadable": (
        "{path} is not a latents file of Halftone, or is damaged.",
        "Choose another file, or make the picture again with its seed.",
    ),
    "latents-strange-file": (
        "The latents {path} need {file}, which is outside your folders. Halftone does not read it.",
        "If you trust it, move the latents to {folder}, or add the file's folder in Settings, Folders.",
    ),
    "latents-other-model": (
        "{path} belongs to the model {model}, not {given}.",
        "Use the model {model}.",
    ),
    "latents-model-changed": (
        "{path} is an unfinished picture of {model}, whose files have changed.",
        "Restore its files, or make the picture again with its seed.",
    ),
    "option-unknown": ("This model's pipeline has no option {name}.", "Known options: {known}."),
    "pipeline-refused": (
        "The model's pipeline rejected an option: {detail}.",
        "Change or remove it.",
    ),
    "hires-unsupported": (
        "{model} does not support Hires. fix: {detail}.",
        "Turn Hires. fix off, or upscale the finished picture.",
    ),
    "upscaler-missing": ("There is no upscale model at {path}.", "Check the path, or add its folder in Settings, Folders."),
    "upscaler-not-one": (
        "Halftone cannot read {path} as an upscale model: {detail}.",
        "Choose a .safetensors upscale model, or convert the .pth file on the Models page.",
    ),
    "upscaler-broken": (
        "The upscale model {name} produced NaN, even in FP32.",
        "Download it again, or use another.",
    ),
    "second-pass-black": (
        "NaN in the second pass, and {detail}.",
        "Check the model, or lower the scale or strength of the second pass.",
    ),
    "second-pass-flat": (
        "The second pass is one flat colour. Its values are finite, so no cure can help.",
        "Check the model, or lower the scale or strength of the second pass.",
    ),
    "lora-missing": ("There is no LoRA at {path}.", "Check the path, or remove it."),
    "lora-not-a-lora": ("{path} is not a LoRA: {detail}.", "Choose a .safetensors LoRA, or remove it."),
    "lora-kind": (
        "The LoRA {name} is of the unsupported kind {kind}. Supported: {known}.",
        "Choose another LoRA, or remove it.",
    ),
    "lora-other-base": (
        "The LoRA {name} does not fit {model}: {detail}.",
        "Choose a LoRA for {family}, or remove it.",
    ),
    "lora-unsupported": ("{model} cannot use the LoRA {name}: {detail}.", "Remove it, or choose another model."),
    "lora-broken": (
        "The LoRA {name} contains NaN in its tensor {tensor}.",
        "Download it again, or remove it.",
    ),
    "lora-unknown": (
        "No LoRA {name} in {folders}.",
        "Found: {found}. Add its folder in Settings, Folders, or choose its file.",
    ),
    "lora-none-found": (
        "No LoRA {name}: {folders} contains no LoRAs.",
        "Add your LoRA folder in Settings, Folders, or choose its file.",
    ),
    "lora-no-folder": (
        "Cannot find the LoRA {name}: no LoRA or model folder is set.",
        "Add your LoRA folder in Settings, Folders, or choose its file.",
    ),
    "vae-missing": ("There is no VAE at {path}.", "Check the path, or use the model default."),
    "vae-gone": (
        "The unfinished picture needs the VAE {path}, which is missing.",
        "Restore it, or make the picture again.",
    ),
    "vae-not-a-vae": (
        "Halftone cannot read {path} as a VAE: {detail}.",
        "Choose a VAE as .safetensors or diffusers folder, or use the model default.",
    ),
    "vae-other-model": (
        "The VAE {name} does not fit {model}: {detail}.",
        "Choose a VAE of this family, or use the model default.",
    ),
    "transformer-missing": ("There is no transformer file at {path}.", "Check the path, or use the model default."),
    "transformer-gone": (
        "The unfinished picture needs the transformer {path}, which is missing.",
        "Restore it, or make the picture again.",
    ),
    "transformer-not-one": (
        "Halftone cannot read {path} as a transformer: {detail}.",
        "Choose a .gguf or .safetensors transformer or UNet, or use the model default.",
    ),
    "transformer-other-model": (
        "The transformer {name} does not fit {model}: {detail}.",
        "Choose a file for {family}, or use the model default.",
    ),
    "inversion-missing": ("There is no embedding at {path}.", "Check the path, or remove it."),
    "inversion-not-one": ("{path} is not an embedding: {detail}.", "Choose a .safetensors embedding, or remove it."),
    "inversion-other-base": (
        "The embedding {name} does not fit {model}: {detail}.",
        "Nothing was made. Use a model that the embedding was trained for, or remove it.",
    ),
    "inversion-unknown": (
        "Your folders hold no embedding {name} for {model}.",
        "Remove embedding:{name} from the prompt, or add the embedding's folder in Settings, Folders.",
    ),
    "inversion-broken": (
        "The embedding {name} contains NaN.",
        "Download it again, or remove it.",
    ),
    "control-missing": ("There is no ControlNet at {path}.", "Check the path, or remove it."),
    "control-not-a-controlnet": (
        "Halftone cannot read {path} as a ControlNet: {detail}.",
        "Choose a ControlNet as .safetensors or diffusers folder, or remove it.",
    ),
    "control-other-base": (
        "The ControlNet {name} does not fit {model}: {detail}.",
        "Choose a ControlNet for {family}, or remove it.",
    ),
    "control-too-narrow": (
        "The control picture {path} is {width} × {height}. Halftone scales none with one edge more than {most} times the other.",
        "Crop it, or choose another.",
    ),
    "preprocessor-failed": (
        "The preprocessor {name} could not draw the picture: {detail}.",
        "Choose another picture, a lower resolution or another preprocessor.",
    ),
    "preprocessor-model": (
        "The preprocessor cannot use {path} as a depth model: {detail}.",
        "Choose a folder with a depth model of transformers, such as Depth Anything or DPT, with config.json, "
        "preprocessor_config.json and model.safetensors.",
    ),
    "preprocessor-pose-model": (
        "The preprocessor cannot find a pose with {path}: {detail}.",
        "Choose a folder with a ViTPose model of transformers, with config.json, preprocessor_config.json and model.safetensors. "
        "A detector of people, such as RT-DETR, may lie in its subfolder detector.",
    ),
    "control-unsupported": (
        "{model} cannot use this ControlNet: {detail}.",
        "Remove it, or choose another model.",
    ),
    "ip-adapter-missing": ("There is no IP-Adapter at {path}.", "Check the path, or remove it."),
    "ip-adapter-not-one": (
        "Halftone cannot use {path} as an IP-Adapter: {detail}.",
        "Choose a .safetensors IP-Adapter, or remove it.",
    ),
    "ip-adapter-other-base": (
        "The IP-Adapter {name} does not fit {model}: {detail}.",
        "Choose an IP-Adapter for {family}, or remove it.",
    ),
    "ip-adapter-unsupported": (
        "{model} cannot use an IP-Adapter: {detail}.",
        "Remove it, or choose another model.",
    ),
    "ip-adapter-no-encoder": (
        "The IP-Adapter {name} needs an image encoder, and {detail}.",
        "Put its image_encoder folder (config.json and model.safetensors) beside its file.",
    ),
    "ip-adapter-no-faces": (
        "The IP-Adapter {name} goes by a face's numbers, and {detail}.",
        "Install the Python packages insightface and onnxruntime in Halftone's environment, and put insightface's models into "
        "~/.insightface/models/buffalo_l.",
    ),
    "ip-adapter-no-face": (
        "No face was found in {path}.",
        "Choose a picture with a face that is seen from the front and not cut off.",
    ),
    "output-folder-missing": ("The folder {folder} does not exist.", "Create it, or choose another."),
    "output-not-folder": ("{path} is a file, not a folder.", "Choose a folder, or another name."),
    "output-read-only": ("Halftone cannot write to {folder}.", "Choose a writable folder."),
    "output-exists": ("{path} exists. Halftone never overwrites your files.", "Choose another name."),
    "output-bad-type": ("Halftone cannot write the file type of {path}.", "End the name with {allowed}."),
    "output-failed": ("{path} could not be saved: {detail}.", "Choose another folder."),
    "stdout-failed": (
        "Could not write the output: {detail}.",
        "Free some space, or write it elsewhere.",
    ),
    "disk-full": (
        "Disk full: {need} needed, {free} free in {folder}.",
        "Free space or choose another folder.",
    ),
    "out-of-memory": (
        "This size does not fit: {detail}.",
        "Use a smaller size or half precision.",
    ),
    "model-too-large": (
        "{model} does not fit into the free memory of {device}.",
        "Close other programs, set Offload to Auto, use another device, or half precision instead of FP32.",
    ),
    "check-no-memory": (
        "Not enough memory to check or repair {model}: {detail}.",
        "Close other programs, set Offload to Auto, or use another device.",
    ),
    "nothing-to-repair": ("This check of {model} found no overflow in FP16.", "Nothing to repair, no copy written."),
    "repair-eight-bits": (
        "{model} has 8-bit weights, which a repaired copy cannot keep exactly.",
        "Use another cure, if the check offers one.",
    ),
    "repair-several-files": (
        "{model} consists of several files, and Halftone repairs only single files and diffusers folders.",
        "Use another cure, if the check offers one.",
    ),
    "run-missing": ("There is no training run at {path}.", "Choose the trainer's output folder, or one of its logs."),
    "run-empty": ("{path} is empty.", "Choose the trainer's output folder, or one of its logs."),
    "run-silent": (
        "{path} contains no training log. Checked: {files}.",
        "Choose the printed log, TensorBoard events, metrics.csv, trainer_state.json, or .safetensors checkpoints.",
    ),
    "run-pickles": (
        "{path} contains only pickle files. Halftone does not open these: they can run code.",
        "Choose the folder with the logs, or .safetensors checkpoints.",
    ),
    "no-rescale": (
        "No rescaling keeps {model} finite in FP16 and close to the original.",
        "Use another cure, if the check offers one.",
    ),
    "no-one-file": (
        "Halftone cannot write this {family} model as one file: {detail}.",
        "Use the other program's settings instead, or save the repaired copy as a folder.",
    ),
    "train-config": ("{file} is not a valid training file: {problem}.", "Correct it and try again."),
    "train-size": (
        "The training size {size} is not a multiple of {step}.",
        "Use {low} or {high}, or 0 for the native size.",
    ),
    "train-no-folder": ("There is no picture folder at {folder}.", "Choose the folder that holds your pictures."),
    "train-no-pictures": (
        "{folder} contains no pictures.",
        "Add 10 to 100 PNG, JPEG or WebP files, or choose another folder.",
    ),
    "train-pictures-inside": ("{folder} contains no pictures; its folder {inside} does.", "Choose {inside}."),
    "train-none-readable": (
        "No picture in {folder} is usable: all are damaged, unsupported or far too small, such as {name}.",
        "Choose another folder.",
    ),
    "train-other-base": (
        "Halftone cannot train a LoRA on {model}: {detail}.",
        "Choose another base model: {known}.",
    ),
    "train-no-optimizer": (
        "The optimizer {name} needs the package {package}, which is missing or does not run here.",
        "Choose AdamW.",
    ),
    "train-no-run": (
        "{folder} is not a training folder.",
        "Choose the folder beside the LoRA.",
    ),
    "train-running": (
        "The training in {folder} is already running.",
        "Wait for it, or stop it there.",
    ),
    "train-other-run": (
        "Cannot resume the training in {folder}: {detail}.",
        "Restore the setting, or start a new training.",
    ),
    "train-pictures-changed": (
        "Cannot resume the training in {folder}: the picture {name} or its caption is missing or changed.",
        "Restore it, or start a new training.",
    ),
    "train-state-unreadable": (
        "Cannot resume: {path} is unreadable.",
        "Start a new training. Saved LoRAs are beside it.",
    ),
    "train-state-broken": (
        "Cannot resume: {path} contains NaN.",
        "Start a new training. Saved LoRAs are beside it.",
    ),
    "train-no-memory": (
        "Not enough memory for this training: {detail}.",
        "Turn on “Save memory”, or use batch size 1, a smaller size, or half precision.",
    ),
    "train-bad-numbers": (
        "Training ended at step {step}: the LoRA contained NaN and was not saved.",
        "Turn on the NaN guard: it keeps such steps out of the LoRA.",
    ),
    "farm-no-ray": (
        "The farm needs Ray, which is not installed ({detail}).",
        "Install it as the guide says under “The farm”.",
    ),
    "farm-start": ("The farm could not be started: {detail}.", "See {log}."),
    "farm-not-possible": ("The farm could not be started: {detail}.", "Correct it and try again."),
    "farm-no-head": (
        "No head answers at {address}.",
        "Check the address and the port, and whether the head runs.",
    ),
    "farm-token": (
        "The farm's token in {path} is missing or wrong.",
        "Copy the head's token file to this machine.",
    ),
    "farm-bad-jobs": ("Line {line} of {path} cannot be used: {why}. No job was submitted.", "Correct it and submit again."),
    "farm-jobs-unread": ("{path} cannot be used: {why}. No job was submitted.", "Name a file with one picture request a line."),
    "farm-refused": ("The farm cannot use {name}: {why}.", "Make this one on your own machine, or change the request."),
    "farm-model": ("A node cannot use {name}: {why}.", "Put the same file into a model folder of the node."),
    "farm-memory": (
        "The job needs about {needs}\u00a0GB, and {card} has {free}\u00a0GB free.",
        "Choose a smaller size, or add a card with more memory.",
    ),
    "farm-no-file": ("{name} ended without a picture.", "Make it on your own machine to see what is wrong with its numbers."),
    "worker-lost": (
        "The engine stopped unexpectedly ({cause}).",
        "It restarted, and finished work is kept. Try again. Log: {log}.",
    ),
    "worker-given-up": (
        "The engine stopped unexpectedly ({cause}).",
        "It stopped too often. Restart Halftone; finished work is kept. Log: {log}.",
    ),
    "worker-start": ("The engine could not start: {detail}.", "See {log}."),
    "protocol-mismatch": ("Version mismatch: the window uses protocol {wanted}, the engine {got}.", "Restart Halftone."),
    "internal": ("Internal error: {detail}.", "Finished work is kept. See {log}."),
}
