"""Each trainer's options and settings for an advice, in its spelling. A table."""

from typing import Final

from halftone.health.doctor.found import Advice
from halftone.library.run_logs.trainer import Trainer

ANY: Final[dict[Advice, str]] = {
    "float32-master": "mixed precision instead of full FP16",
    "grad-scaler": "GradScaler; mixed_precision fp16",
    "bfloat16": "mixed_precision bf16",
    "clip-1": "max_grad_norm 1.0",
    "vae-float32": "kohya: no_half_vae",
}
"""For an unknown trainer."""

FLAGS: Final[dict[Trainer, dict[Advice, str]]] = {
    "sd-scripts": {
        "epsilon-1e-4": '--optimizer_args "eps=1e-4"',
        "amsgrad": '--optimizer_type AdamW --optimizer_args "amsgrad=True"',
        "float32-states": "--mixed_precision without --full_fp16",
        "float32-master": "--mixed_precision fp16 without --full_fp16",
        "grad-scaler": "--mixed_precision fp16 without --full_fp16",
        "bfloat16": "--mixed_precision bf16",
        "clip-1": "--max_grad_norm 1.0",
        "warm-up": "--lr_warmup_steps 200",
        "cosine": "--lr_scheduler cosine",
        "lower-rate": "--learning_rate; --unet_lr and --text_encoder_lr where they are given",
        "vae-float32": "--no_half_vae",
        "validate-apart": "without --sample_every_n_steps and --sample_every_n_epochs",
        "earlier-checkpoint": "--resume, or --network_weights with a LoRA",
        "new-optimizer-state": "--network_weights in the place of --resume",
    },
    "diffusers": {
        "epsilon-1e-4": "--adam_epsilon 1e-4",
        "float32-master": "--mixed_precision fp16, with the model loaded in FP32",
        "grad-scaler": "--mixed_precision fp16",
        "bfloat16": "--mixed_precision bf16",
        "clip-1": "--max_grad_norm 1.0",
        "warm-up": "--lr_warmup_steps 200",
        "cosine": "--lr_scheduler cosine",
        "lower-rate": "--learning_rate",
        "vae-float32": "--pretrained_vae_model_name_or_path madebyollin/sdxl-vae-fp16-fix",
        "validate-apart": "without --validation_prompt",
        "earlier-checkpoint": "--resume_from_checkpoint checkpoint-N",
    },
    "transformers": {
        "epsilon-1e-4": "adam_epsilon=1e-4",
        "float32-master": "fp16=True with the model loaded in FP32",
        "grad-scaler": "fp16=True",
        "bfloat16": "bf16=True instead of fp16=True",
        "clip-1": "max_grad_norm=1.0",
        "warm-up": "warmup_steps=200",
        "cosine": 'lr_scheduler_type="cosine"',
        "lower-rate": "learning_rate",
        "validate-apart": 'eval_strategy="no"',
        "earlier-checkpoint": "trainer.train(resume_from_checkpoint=…)",
    },
    "lightning": {
        "epsilon-1e-4": "eps=1e-4 in configure_optimizers",
        "amsgrad": "amsgrad=True in configure_optimizers",
        "float32-states": 'Trainer(precision="16-mixed") instead of "16-true"',
        "float32-master": 'Trainer(precision="16-mixed") instead of "16-true"',
        "grad-scaler": 'Trainer(precision="16-mixed")',
        "bfloat16": 'Trainer(precision="bf16-mixed")',
        "clip-1": "Trainer(gradient_clip_val=1.0)",
        "lower-rate": "lr in configure_optimizers",
        "validate-apart": "Trainer(limit_val_batches=0, num_sanity_val_steps=0)",
        "earlier-checkpoint": "trainer.fit(…, ckpt_path=…)",
    },
    "onetrainer": {
        "epsilon-1e-4": "Optimizer settings, EPS (optimizer.eps)",
        "float32-master": "weight data type FLOAT_32 of what is trained (lora_weight_dtype)",
        "bfloat16": "Train Data Type BFLOAT_16 (train_dtype)",
        "clip-1": "Clip Grad Norm 1.0 (clip_grad_norm)",
        "warm-up": "Learning Rate Warmup Steps (learning_rate_warmup_steps)",
        "cosine": "Learning Rate Scheduler COSINE (learning_rate_scheduler)",
        "lower-rate": "Learning Rate (learning_rate)",
        "vae-float32": "VAE Data Type FLOAT_32 (vae.weight_dtype)",
        "earlier-checkpoint": "a folder of backup/",
    },
    "ai-toolkit": {
        "epsilon-1e-4": "train: optimizer_params: eps: 1e-4",
        "float32-master": "train: dtype: fp32",
        "bfloat16": "train: dtype: bf16",
        "clip-1": "train: max_grad_norm: 1.0",
        "warm-up": "train: lr_scheduler: constant_with_warmup, lr_scheduler_params: num_warmup_steps: 200",
        "cosine": "train: lr_scheduler: cosine",
        "lower-rate": "train: lr",
        "validate-apart": "train: disable_sampling: true",
    },
    "simpletuner": {
        "epsilon-1e-4": "--adam_epsilon 1e-4",
        "bfloat16": "--mixed_precision bf16",
        "clip-1": "--max_grad_norm 1.0",
        "warm-up": "--lr_warmup_steps 200",
        "cosine": "--lr_scheduler cosine",
        "lower-rate": "--learning_rate",
        "vae-float32": "--vae_dtype fp32",
        "validate-apart": "--validation_disable",
        "earlier-checkpoint": "--resume_from_checkpoint checkpoint-N",
    },
    "deepspeed": {
        "epsilon-1e-4": '"optimizer": {"params": {"eps": 1e-4}}',
        "grad-scaler": '"fp16": {"enabled": true, "loss_scale": 0}',
        "bfloat16": '"bf16": {"enabled": true} instead of "fp16"',
        "clip-1": '"gradient_clipping": 1.0',
        "warm-up": '"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 200}}',
        "lower-rate": '"optimizer": {"params": {"lr": …}}',
    },
    "sana": {
        "epsilon-1e-4": "train.optimizer.eps: 1.0e-4",
        "bfloat16": "model.mixed_precision: bf16",
        "clip-1": "train.gradient_clip: 1.0, or less",
        "warm-up": "train.lr_schedule_args.num_warmup_steps",
        "lower-rate": "train.optimizer.lr",
        "validate-apart": "train.visualize: false",
        "earlier-checkpoint": "model.resume_from",
    },
    "trellis": {
        "epsilon-1e-4": "trainer.args.optimizer.args: eps 1e-4",
        "amsgrad": "trainer.args.optimizer.args: amsgrad true",
        "float32-master": 'trainer.args.fp16_mode: "inflat_all"',
        "float32-states": 'trainer.args.fp16_mode: "inflat_all"',
        "bfloat16": "models.….args.use_fp16: false trains in FP32 instead",
        "clip-1": "trainer.args.grad_clip: 1.0",
        "lower-rate": "trainer.args.optimizer.args.lr",
    },
    "hallo": {
        "epsilon-1e-4": "solver.adam_epsilon: 1.0e-4",
        "float32-master": 'weight_dtype: "fp32" with solver.mixed_precision: "fp16"',
        "float32-states": 'weight_dtype: "fp32"',
        "bfloat16": 'weight_dtype: "bf16"',
        "clip-1": "solver.max_grad_norm: 1.0",
        "warm-up": "solver.lr_warmup_steps",
        "cosine": 'solver.lr_scheduler: "cosine"',
        "lower-rate": "solver.learning_rate",
        "validate-apart": "it runs after the first step too, whatever val.validation_steps says",
        "earlier-checkpoint": "resume_from_checkpoint",
    },
}
"""Those of sd-scripts, SimpleTuner, OneTrainer, ai-toolkit, Hallo, TRELLIS and Sana were looked up in their sources, those of the
others were not; missing settings are left out.
"""


def flag(advice: Advice, trainer: Trainer | None) -> str:
    """The setting that does what is advised; "" where none is known."""
    return FLAGS[trainer].get(advice, "") if trainer is not None else ANY.get(advice, "")
