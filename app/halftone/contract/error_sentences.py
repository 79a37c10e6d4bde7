"""What is said of each error: the sentence of what happened, and what the user can do in the window."""

from typing import Final

from halftone.contract.error_codes import ErrorCode

WORDS: Final[dict[ErrorCode, tuple[str, str]]] = {
    "usage": ("{problem}.", "{hint}{command} --help tells more."),
    "model-missing": ("There is no model at {path}.", "Check the path, or use the bundled model: pocket."),
    "model-empty-folder": ("The folder {path} is empty.", "Choose a folder that holds a diffusers model (model_index.json)."),
    "model-not-a-model": (
        "{path} is not a model that Halftone can read.",
        "Choose a .safetensors file, or a diffusers folder: one that holds a model_index.json.",
    ),
    "model-truncated": (
        "{path} is cut off: its header promises {expected} bytes, the file has {actual}.",
        "Download the file again.",
    ),
    "file-empty": ("{path} is empty.", "Download the file again."),
    "not-safetensors": ("{path} is no safetensors file: {detail}.", "Choose another file, or download this one again."),
    "model-bad-header": ("{path} has a damaged header: {detail}.", "Download the file again."),
    "model-pickle": (
        "{path} is a pickle file, which can run code when it is opened, so Halftone does not open it.",
        "Use the .safetensors version of this model.",
    ),
    "model-incomplete": ("The model {path} has no {missing}.", "Download the missing part again, or choose another model."),
    "model-unsupported": (
        "Halftone cannot run {path} yet: {detail}.",
        "Choose a diffusers folder of this model, or a whole file of Stable Diffusion, SDXL or FLUX.1.",
    ),
    "model-needs-parts": (
        "Halftone cannot run {path} alone: {detail}.",
        "Add a diffusers folder of {family} to your models: this file runs with the other parts of that, as its transformer.",
    ),
    "model-needs-files": (
        "Halftone can run {path} once it has one more small file: {files}.",
        "Fetch it, or put it into {folder}.",
    ),
    "fetch-refused": (
        "{source} gives {file} only to those who agreed to its terms.",
        "Agree to them on that page, and set HF_TOKEN to a token of yours.",
    ),
    "fetch-token": (
        "{source} does not give {file}: {detail}.",
        "Set HF_TOKEN to a token of yours that is valid, or leave it out where the file is for everybody.",
    ),
    "fetch-missing": ("{source} has no {file}.", "Set HF_ENDPOINT to another mirror, or take it from elsewhere."),
    "fetch-failed": (
        "{file} could not be fetched from {source}: {detail}.",
        "Try again. HF_ENDPOINT names another mirror.",
    ),
    "small-file-unfit": ("{path} cannot be used as {file}: {detail}.", "Choose the {file} of {source}, or fetch it."),
    "model-cannot-run": ("Halftone cannot run {path}: {detail}.", "Choose another folder, or another model."),
    "model-sampler-unfit": (
        "Halftone cannot run {path} with its own sampler: {pipeline} does not take {sampler}.",
        "Choose another sampler, or another model.",
    ),
    "model-load-failed": (
        "The model {path} could not be loaded: {detail}.",
        "The log tells more; downloading it again often helps.",
    ),
    "model-parts-misfit": (
        "The parts of {model} do not fit together: {detail}.",
        "Put back the part that was exchanged, or download the model again.",
    ),
    "model-part-failed": (
        "{model} cannot run: its {part} fails with what its files say, or with what the other parts give it.",
        "Put back what was changed in it, or download the model again; the log tells more.",
    ),
    "places-too-few": (
        "{model} has no places for so large a picture or so long a prompt.",
        "Use a smaller size, or a shorter prompt.",
    ),
    "model-broken": ("{model} holds broken numbers: {detail}.", "No setting can cure that; download the file again."),
    "device-unknown": ("There is no device {device} here.", "Use {known}."),
    "device-lost": ("The device {device} stopped answering: {detail}.", "Everything finished is kept; try again."),
    "precision-missing": ("{device} cannot compute in {dtype}.", "Use {known}."),
    "setting-bad-value": ("{name} cannot be {value}.", "Use {allowed}."),
    "size-not-multiple": ("{name} is {value}, which is not a multiple of {multiple}.", "Use {below} or {above}."),
    "strength-too-small": (
        "With {steps} steps and a strength of {value} not one step would be computed.",
        "Use a strength of {low} or more, or more steps.",
    ),
    "value-out-of-range": ("{name} cannot be {value}.", "Choose a value from {low} to {high}."),
    "prompt-empty": ("The prompt is empty.", 'Describe the picture, for example "a red sun over green hills".'),
    "prompt-no-text": ("The prompt holds bytes that are no text.", "Type it anew, or set the terminal to UTF-8."),
    "prompt-too-long": (
        "The prompt is too long for what {path} can hold beside the picture.",
        "End the name with .png, or shorten the prompt.",
    ),
    "wildcard-missing": ("There is no wildcard {name}.", "Use {near}, or let nothing be drawn."),
    "wildcard-none": (
        "The prompt names the wildcard {name}, and no folder has any.",
        "Add the folder with its .txt file in Settings, Folders.",
    ),
    "wildcard-empty": ("The wildcard {name} has no lines: {path}.", "Write one word or more into it, each on a line of its own."),
    "wildcard-endless": ("The wildcard {name} leads to itself, or to too much text.", "Take it out of the lines that it names."),
    "words-unreadable": ("{path} cannot be read: {detail}.", "Save it as text in UTF-8."),
    "style-too-long": (
        "The style {name} makes the prompt longer than {most} characters.",
        "Choose fewer styles, or let the style repeat the prompt less often.",
    ),
    "style-unknown": ("There is no style {name}.", "Choose {known}."),
    "styles-missing": ("There is no file of styles at {path}.", "Choose a styles.csv, as A1111 writes it."),
    "styles-not-one": (
        "{path} is no file of styles.",
        "Its first line has to be {columns}.",
    ),
    "picture-needed": (
        "{model} starts from a picture, and none was given.",
        "Choose one under Start picture.",
    ),
    "mask-needed": (
        "{model} paints only where a mask says so, and none was given.",
        "Paint one under Start picture, or choose one, white where the picture is to change.",
    ),
    "mask-other-shape": (
        "The mask {path} is {own} and its picture {picture}, so the two do not show the same places.",
        "Give a mask of the picture's size, or of the same shape.",
    ),
    "mask-empty": (
        "The mask {path} is black everywhere, so nothing would change.",
        "Paint it white where something new is to be.",
    ),
    "start-no-picture": ("{model} makes no picture from another one.", "Leave the start picture out, or choose another model."),
    "start-no-mask": ("{model} cannot paint inside a mask or beyond a picture's edge.", "Leave it out, or choose another model."),
    "start-no-strength": (
        "{model} takes a start picture as a whole, so it has no strength.",
        "Leave the strength out, or choose another model.",
    ),
    "image-missing": ("There is no picture at {path}.", "Check the path."),
    "picture-silent": ("{path} says nothing about how it was made.", "To start from it, drop it on Start picture."),
    "picture-graph": (
        "{path} was made by a workflow of ComfyUI that is not plain: {detail}.",
        "Type what you know of it, or drop it on Start picture to start from it.",
    ),
    "picture-model-unknown": (
        "{path} was made with the model {model}, which is not in your folders.",
        "Add the folder of that model in Settings, Folders, or choose another one.",
    ),
    "picture-start-missing": (
        "{path} was made from the picture {start}, and without that one Halftone would make another picture.",
        "Choose that picture as the start picture.",
    ),
    "no-right": (
        "Halftone has no right to read {path}.",
        "Give yourself the right to read it, or copy it to where you may.",
    ),
    "data-read-only": (
        "Halftone may not write to {path}, where it keeps its own things.",
        "Give yourself the right to write there, or set HALFTONE_DATA to another folder.",
    ),
    "video-of-pictures": ("{model} makes pictures, and {name} is for videos.", "Leave it out, or choose a video model."),
    "image-gone": (
        "The unfinished picture goes on from {path}, which is not there any more.",
        "Put it back, or make the picture again.",
    ),
    "input-changed": (
        "The unfinished picture was begun with {path}, and that file is another one now.",
        "Put the old one back, or make the picture again.",
    ),
    "image-unreadable": ("{path} is not a picture that can be read.", "Choose a PNG, JPEG or WebP file."),
    "image-damaged": (
        "The picture {path} is damaged or ends early, so it cannot be read.",
        "Copy or download it again, or choose another one.",
    ),
    "image-not-read": ("The picture {path} could not be read: {detail}.", "Try again, or choose another picture."),
    "image-other-kind": ("{path} is {kind}, which Halftone does not read.", "Choose a PNG, JPEG or WebP file."),
    "image-not-file": ("{path} is {kind}, not a picture.", "Choose a PNG, JPEG or WebP file."),
    "picture-too-large": (
        "The picture {path} has more than {most} million pixels, which is more than Halftone opens.",
        "Make it smaller in an image editor, or choose another one.",
    ),
    "latents-missing": ("There are no kept latents at {path}.", "Check the path, or make the picture again with its seed."),
    "latents-unreadable": (
        "{path} holds no latents that Halftone kept, or the file is damaged.",
        "Choose a file that Halftone named, or make the picture again with its seed.",
    ),
    "latents-strange-file": (
        "The latents {path} name the file {file}, which lies in none of your folders, so Halftone does not read it.",
        "If you trust them, put them into {folder}, or add the folder of that file in Settings, Folders.",
    ),
    "latents-other-model": (
        "{path} belongs to a picture of the model {model}, and {given} would make another picture of it.",
        "Use the model {model}.",
    ),
    "latents-model-changed": (
        "{path} is half a picture of the model {model}, whose files have changed since.",
        "Put its old files back, or make the picture again with its seed.",
    ),
    "option-unknown": ("This model's pipeline has no option {name}.", "Known options: {known}."),
    "pipeline-refused": (
        "The model's pipeline does not take what it was given: {detail}.",
        "Change what the sentence names, or leave it out.",
    ),
    "hires-unsupported": (
        "{model} cannot draw over a picture made larger: {detail}.",
        "Leave the second pass (hires) out, or enlarge the finished picture.",
    ),
    "upscaler-missing": ("There is no upscale model at {path}.", "Check the path, or add its folder in Settings, Folders."),
    "upscaler-not-one": (
        "{path} is not an upscale model that Halftone can read: {detail}.",
        "Choose the .safetensors file of an upscale model, or convert a .pth file to it with a program that you trust with it.",
    ),
    "upscaler-broken": (
        "The upscale model {name} gave bad numbers, also in FP32.",
        "Download it again, or use another one.",
    ),
    "second-pass-black": (
        "A bad number appeared in the second pass, and {detail}.",
        "Check the model, or give the second pass a smaller scale or strength.",
    ),
    "second-pass-flat": (
        "The second pass came out in one colour, and no cure can help: its numbers are finite.",
        "Give the second pass a smaller scale or strength, or check the model.",
    ),
    "lora-missing": ("There is no LoRA at {path}.", "Check the path, or leave it out."),
    "lora-not-a-lora": ("{path} is not a LoRA: {detail}.", "Choose a LoRA's .safetensors file, or leave it out."),
    "lora-kind": (
        "The LoRA {name} is of the kind {kind}, which Halftone does not understand; it understands {known}.",
        "Choose another LoRA, or leave it out.",
    ),
    "lora-other-base": (
        "The LoRA {name} was made for another kind of model than {model}: {detail}.",
        "Choose a LoRA for {family}, or leave it out.",
    ),
    "lora-unsupported": ("{model} cannot use the LoRA {name}: {detail}.", "Leave it out, or choose another model."),
    "lora-broken": (
        "The LoRA {name} holds numbers that are not numbers, in its tensor {tensor}.",
        "Download it again, or leave it out.",
    ),
    "lora-unknown": (
        "There is no LoRA called {name} in {folders}.",
        "There are: {found}. Add its folder in Settings, Folders, or choose its file.",
    ),
    "lora-none-found": (
        "There is no LoRA called {name}: no LoRA at all is in {folders}.",
        "Add the folder of your LoRAs in Settings, Folders, or choose its file.",
    ),
    "lora-no-folder": (
        "The LoRA {name} cannot be looked for: no folder of LoRAs or models is known.",
        "Add the folder of your LoRAs in Settings, Folders, or choose its file.",
    ),
    "vae-missing": ("There is no VAE at {path}.", "Check the path, or use the model's own VAE."),
    "vae-gone": (
        "The unfinished picture was begun with the VAE {path}, which is not there any more.",
        "Put it back, or make the picture again.",
    ),
    "vae-not-a-vae": (
        "{path} is not a VAE that Halftone can read: {detail}.",
        "Choose a .safetensors file, or a diffusers folder of a VAE, or use the model's own.",
    ),
    "vae-other-model": (
        "The VAE {name} does not fit {model}: {detail}.",
        "Choose a VAE of this family, or use the model's own.",
    ),
    "transformer-missing": ("There is no transformer file at {path}.", "Check the path, or use the model's own."),
    "transformer-gone": (
        "The unfinished picture was begun with the transformer {path}, which is not there any more.",
        "Put it back, or make the picture again.",
    ),
    "transformer-not-one": (
        "{path} is not a transformer that Halftone can read: {detail}.",
        "Choose a .gguf or .safetensors file of a transformer or UNet, or use the model's own.",
    ),
    "transformer-other-model": (
        "The transformer {name} does not fit {model}: {detail}.",
        "Choose a file that was made for {family}, or use the model's own.",
    ),
    "inversion-missing": ("There is no embedding at {path}.", "Check the path, or leave it out."),
    "inversion-not-one": ("{path} is not an embedding: {detail}.", "Choose an embedding's .safetensors file, or leave it out."),
    "inversion-other-base": (
        "The embedding {name} was made for another kind of model than {model}: {detail}.",
        "Choose an embedding for {family}, or leave it out.",
    ),
    "inversion-broken": (
        "The embedding {name} holds numbers that are not numbers.",
        "Download it again, or leave it out.",
    ),
    "control-missing": ("There is no ControlNet at {path}.", "Check the path, or leave it out."),
    "control-not-a-controlnet": (
        "{path} is not a ControlNet that Halftone can read: {detail}.",
        "Choose a ControlNet's .safetensors file or diffusers folder, or leave it out.",
    ),
    "control-other-base": (
        "The ControlNet {name} was made for another kind of model than {model}: {detail}.",
        "Choose a ControlNet for {family}, or leave it out.",
    ),
    "control-unsupported": (
        "{model} cannot be used with this ControlNet: {detail}.",
        "Leave the ControlNet out, or choose another model.",
    ),
    "ip-adapter-missing": ("There is no IP-Adapter at {path}.", "Check the path, or leave it out."),
    "ip-adapter-not-one": (
        "{path} is not an IP-Adapter that Halftone can use: {detail}.",
        "Choose an IP-Adapter's .safetensors file, or leave it out.",
    ),
    "ip-adapter-other-base": (
        "The IP-Adapter {name} was made for another kind of model than {model}: {detail}.",
        "Choose an IP-Adapter for {family}, or leave it out.",
    ),
    "ip-adapter-unsupported": (
        "{model} cannot be used with an IP-Adapter: {detail}.",
        "Leave the IP-Adapter out, or choose another model.",
    ),
    "ip-adapter-no-encoder": (
        "The IP-Adapter {name} reads pictures through an image encoder, and {detail}.",
        "Put the folder image_encoder that belongs to it (config.json and model.safetensors) beside its file.",
    ),
    "output-folder-missing": ("The folder {folder} does not exist.", "Create it, or choose another one."),
    "output-not-folder": ("{path} is a file, not a folder.", "Choose a folder, or another name."),
    "output-read-only": ("Halftone may not write into {folder}.", "Choose a folder that you may write to."),
    "output-exists": ("{path} exists already, and nothing of yours is overwritten.", "Choose another name."),
    "output-bad-type": ("{path} is no file type that Halftone writes.", "End the name with {allowed}."),
    "output-failed": ("{path} could not be saved: {detail}.", "Choose another folder."),
    "stdout-failed": (
        "What the command prints could not be written: {detail}.",
        "Free some space, or send it to another place.",
    ),
    "disk-full": (
        "Not enough space on the disk: {need} needed, {free} free in {folder}.",
        "Free some space or choose another folder.",
    ),
    "out-of-memory": (
        "This size does not fit: {detail}.",
        "Choose a smaller size. If this ran in FP32, FP16 or BF16 needs less.",
    ),
    "model-too-large": (
        "The model {model} does not fit into the free memory of {device}.",
        "Close other programs that use it, set Offload to Auto in the settings, or use another device. If this ran "
        "in FP32, FP16 or BF16 needs less.",
    ),
    "check-no-memory": (
        "There is not enough memory to check or repair {model}: {detail}.",
        "Close other programs that use it, set Offload to Auto in the settings, or use another device.",
    ),
    "nothing-to-repair": ("{model} holds in FP16 as it is.", "There is nothing to repair, and no copy was written."),
    "repair-eight-bits": (
        "{model} holds weights in eight bits, which a repaired copy could not hold exactly.",
        "Use the cure that the check offers instead.",
    ),
    "run-missing": ("There is no run at {path}.", "Give the folder that the trainer wrote into, or one of its logs."),
    "run-empty": ("{path} is empty.", "Give the folder that the trainer wrote into, or one of its logs."),
    "run-silent": (
        "Nothing in {path} tells how a training went; files looked at: {files}.",
        "Give what the trainer printed, its TensorBoard events, metrics.csv, trainer_state.json, or .safetensors checkpoints.",
    ),
    "run-pickles": (
        "{path} holds only pickle files, which can run code when they are opened, so Halftone does not open them.",
        "Give the folder with the logs, or checkpoints saved as .safetensors.",
    ),
    "no-rescale": (
        "No rescaling that a file can hold keeps {model} finite in FP16 and close to the original.",
        "Use the cure that the check offers instead.",
    ),
    "train-config": ("{file} is no training: {problem}.", "Set it right, and try again."),
    "train-size": (
        "This model cannot be trained at size {size}, which is not a multiple of {step}.",
        "Set the size to {low} or {high}, or to 0 for the model's own size.",
    ),
    "train-no-folder": ("There is no folder of pictures at {folder}.", "Choose the folder that holds your pictures."),
    "train-no-pictures": (
        "The folder {folder} holds no pictures.",
        "Put 10 to 100 PNG, JPEG or WebP files into it, or choose another folder.",
    ),
    "train-pictures-inside": ("The folder {folder} holds no pictures itself; its folder {inside} does.", "Choose that one."),
    "train-none-readable": (
        "None of the pictures in {folder} can be used: each is damaged, of a kind that cannot be read here, or far too small, "
        "such as {name}.",
        "Choose another folder.",
    ),
    "train-other-base": (
        "No LoRA can be trained on {model}: {detail}.",
        "Choose another base model; these can be trained: {known}.",
    ),
    "train-no-optimizer": (
        "The optimizer {name} is not there: it needs the package {package}, which is missing or does not run here.",
        "Choose AdamW.",
    ),
    "train-no-run": (
        "{folder} is not the folder of a training.",
        "Choose the folder that lies beside the LoRA it was to become.",
    ),
    "train-running": (
        "The training in {folder} is running already.",
        "Wait until it ends, or stop it where it runs.",
    ),
    "train-other-run": (
        "The training in {folder} cannot go on with this: {detail}.",
        "Set it as it was, or start a new training.",
    ),
    "train-pictures-changed": (
        "The training in {folder} cannot go on: the picture {name} or its caption is gone or is another one now.",
        "Put it back as it was, or start a new training.",
    ),
    "train-state-unreadable": (
        "{path} cannot be read, so the training cannot go on from it.",
        "Start a new training; the LoRAs that were saved lie beside it.",
    ),
    "train-state-broken": (
        "{path} holds bad numbers, so the training cannot go on from it.",
        "Start a new training; the LoRAs that were saved lie beside it.",
    ),
    "train-no-memory": (
        "This training needs more memory than there is: {detail}.",
        "Switch “Save memory” on, or choose a batch of 1, a smaller size, FP16 or BF16, and begin again.",
    ),
    "train-bad-numbers": (
        "At step {step} the LoRA held bad numbers, so it was not saved, and training ended.",
        "Train with the bad-number guard on: it stops such a step before it reaches the LoRA.",
    ),
    "worker-lost": (
        "The part of Halftone that computes stopped unexpectedly ({cause}).",
        "It was started again and everything finished is kept; try again. Details are in {log}.",
    ),
    "worker-given-up": (
        "The part of Halftone that computes stopped unexpectedly ({cause}).",
        "It stopped too often, so it stays off until you restart Halftone; everything finished is kept. Details are in {log}.",
    ),
    "worker-start": ("The part of Halftone that computes could not start: {detail}.", "Details are in {log}."),
    "protocol-mismatch": ("The window speaks protocol {wanted}, the worker {got}.", "Start Halftone again."),
    "internal": ("Something inside Halftone failed: {detail}.", "Everything finished is kept; details are in {log}."),
}
