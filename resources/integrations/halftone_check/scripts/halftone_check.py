"""A tab for A1111, Forge and reForge that shows what Halftone finds in the chosen checkpoint. Installed by copying the folder."""

from halftone_caller import report
from modules import script_callbacks, sd_models


def check(device, seconds):
    """Check the checkpoint that is chosen at the top of the page."""
    try:
        chosen = sd_models.select_checkpoint()
    except FileNotFoundError:
        chosen = None
    if chosen is None:
        return "There is no checkpoint to check."
    return report(chosen.filename, "a1111", device=device, seconds=seconds)


def on_ui_tabs():
    import gradio

    with gradio.Blocks(analytics_enabled=False) as tab:
        with gradio.Row():
            device = gradio.Dropdown(["auto", "cpu"], value="auto", label="Device (cpu needs no video memory, but time)")
            seconds = gradio.Number(value=900, label="Time limit in seconds")
        button = gradio.Button("Check the chosen checkpoint", variant="primary")
        result = gradio.Textbox(label="Finding", lines=12, interactive=False)
        button.click(check, inputs=[device, seconds], outputs=[result])
    return [(tab, "Halftone", "halftone_check")]


script_callbacks.on_ui_tabs(on_ui_tabs)
