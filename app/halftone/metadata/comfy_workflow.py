"""Makes the form that ComfyUI runs of the form that its editor saves, for pictures that have only the latter. It is untrusted.

The editor's form (https://docs.comfy.org/specs/workflow_json): nodes with their inputs' links and the values of their widgets in
order; links; subgraphs, each of which a node elsewhere stands for, as group nodes did before. What only the editor knows
(reroutes, primitives, bypassed and muted nodes) is not there afterwards.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, cast

from halftone.metadata.comfy_graph import EMPTY, LONGEST_KIND, MOST, Node

WIDGETS: Final[dict[str, str]] = {
    "AlignYourStepsScheduler": "model_type steps denoise",
    "BasicScheduler": "scheduler steps denoise",
    "BNK_CLIPTextEncodeAdvanced": "text token_normalization weight_interpretation",
    "BetaSamplingScheduler": "steps alpha beta",
    "CFGGuider": "cfg",
    "CLIPSetLastLayer": "stop_at_clip_layer",
    "CLIPTextEncode": "text",
    "CLIPTextEncodeFlux": "clip_l t5xxl guidance",
    "CLIPTextEncodeHunyuanDiT": "bert mt5xl",
    "CLIPTextEncodeLumina2": "system_prompt user_prompt",
    "CLIPTextEncodeSD3": "clip_l clip_g t5xxl empty_padding",
    "CLIPTextEncodeSDXL": "width height crop_w crop_h target_width target_height text_g text_l",
    "CLIPTextEncodeSDXLRefiner": "ascore width height text",
    "CR Seed": "seed",
    "CheckpointLoader": "config_name ckpt_name",
    "CheckpointLoaderSimple": "ckpt_name",
    "DualCFGGuider": "cfg_conds cfg_cond2_negative style",
    "Efficient Loader": "ckpt_name vae_name clip_skip lora_name lora_model_strength lora_clip_strength positive negative"
    " token_normalization weight_interpretation empty_latent_width empty_latent_height batch_size",
    "EmptyLatentImage": "width height batch_size",
    "EmptySD3LatentImage": "width height batch_size",
    "ExponentialScheduler": "steps sigma_max sigma_min",
    "Float Literal": "float",
    "FloatConstant": "value",
    "Flux2Scheduler": "steps width height",
    "FluxGuidance": "guidance",
    "GITSScheduler": "coeff steps denoise",
    "ImageOnlyCheckpointLoader": "ckpt_name",
    "INTConstant": "value",
    "ImageScale": "upscale_method width height crop",
    "ImageScaleBy": "upscale_method scale_by",
    "ImageScaleToTotalPixels": "upscale_method megapixels",
    "Int Literal": "int",
    "JWFloat": "value",
    "JWInteger": "value",
    "KSampler": "seed steps cfg sampler_name scheduler denoise",
    "KSampler (Efficient)": "seed steps cfg sampler_name scheduler denoise",
    "KSamplerAdvanced": "add_noise noise_seed steps cfg sampler_name scheduler start_at_step end_at_step",
    "KSamplerSelect": "sampler_name",
    "KarrasScheduler": "steps sigma_max sigma_min rho",
    "LaplaceScheduler": "steps sigma_max sigma_min mu beta",
    "LatentUpscale": "upscale_method width height crop",
    "LatentUpscaleBy": "upscale_method scale_by",
    "LoadImage": "image",
    "LoadImageMask": "image channel",
    "LoraLoader": "lora_name strength_model strength_clip",
    "LoraLoaderModelOnly": "lora_name strength_model",
    "ModelSamplingAuraFlow": "shift",
    "ModelSamplingDiscrete": "sampling zsnr",
    "ModelSamplingFlux": "max_shift base_shift width height",
    "ModelSamplingSD3": "shift",
    "OptimalStepsScheduler": "model_type steps denoise",
    "PolyexponentialScheduler": "steps sigma_max sigma_min rho",
    "PrimitiveBoolean": "value",
    "PrimitiveFloat": "value",
    "PrimitiveInt": "value",
    "PrimitiveString": "value",
    "PrimitiveStringMultiline": "value",
    "RandomNoise": "noise_seed",
    "RescaleCFG": "multiplier",
    "SDTurboScheduler": "steps denoise",
    "SamplerCustom": "add_noise noise_seed cfg",
    "SamplerDPMPP_2M_SDE": "solver_type eta s_noise noise_device",
    "SamplerDPMPP_3M_SDE": "eta s_noise noise_device",
    "SamplerDPMPP_2S_Ancestral": "eta s_noise",
    "SamplerDPMPP_SDE": "eta s_noise r noise_device",
    "SamplerEulerAncestral": "eta s_noise",
    "SaveImage": "filename_prefix",
    "Seed (rgthree)": "seed",
    "Seed Everywhere": "seed",
    "SetFirstSigma": "sigma",
    "SplitSigmas": "step",
    "SplitSigmasDenoise": "denoise",
    "String Literal": "string",
    "StringConstant": "string",
    "StringConstantMultiline": "string strip_newlines",
    "Text Multiline": "text",
    "TextEncodeQwenImageEdit": "prompt",
    "TextEncodeQwenImageEditPlus": "prompt",
    "TextEncodeHunyuanVideo_ImageToVideo": "prompt image_interleave",
    "UNETLoader": "unet_name weight_dtype",
    "UnetLoaderGGUF": "unet_name",
    "UpscaleModelLoader": "model_name",
    "VAEEncodeForInpaint": "grow_mask_by",
    "VAELoader": "vae_name",
    "VPScheduler": "steps beta_d beta_min eps_s",
    "easy seed": "seed",
    "ttN float": "float",
    "ttN int": "int",
    "ttN text": "text",
    "unCLIPCheckpointLoader": "ckpt_name",
}
"""Kinds of nodes that the reader knows -> the names of their widgets in order, which the editor's form leaves out."""
_SEEDS: Final = ("seed", "noise_seed", "value", "int")
_AFTER: Final = ("fixed", "increment", "decrement", "randomize", "increment-wrap")
"""What the editor does to a seed after a picture; stands behind it without a name."""
_VIRTUAL: Final = ("Note", "MarkdownNote", "PrimitiveNode", "Reroute", "Reroute (rgthree)", "SetNode", "GetNode")
"""Kinds that only the editor has."""
_MUTED: Final = 2
_BYPASSED: Final = 4
_INPUTS: Final = "-10"
_OUTPUTS: Final = "-20"
"""The nodes in a subgraph that stand for its own inputs and outputs."""
_MOST: Final = 10_000
"""Nodes in all."""
_MOST_GRAPHS: Final = 500
"""Subgraphs in all."""
_DEEPEST: Final = 16
"""Subgraphs within each other."""


_LINK: Final = 4
"""Parts of a link of a group node: node and output, node and input."""
_GROUPS: Final = ("workflow/", "workflow>")
"""What begins the kind of a group node."""


class _Link(NamedTuple):
    origin: str
    slot: int
    kind: object


@dataclass(frozen=True)
class _Scope:
    """One graph: the whole one, or a subgraph in the place of a node (outer, of the scope around it). What is looked up for each
    of its nodes is indexed once.
    """

    prefix: str
    nodes: dict[str, Node]
    links: dict[str, _Link]
    definition: Node
    around: "_Scope | None"
    outer: Node

    @cached_property
    def setters(self) -> dict[str, Node]:
        """What a GetNode names -> the first SetNode of that name."""
        found: dict[str, Node] = {}
        for node in self.nodes.values():
            if _kind(node) == "SetNode":
                found.setdefault(_wire(node), node)
        return found

    @cached_property
    def passing(self) -> dict[int, dict[str, object]]:
        """Bypassed nodes by their ids -> the types of their inputs -> the first link of each."""
        return {}

    @cached_property
    def declared(self) -> list[Node]:
        """The inputs of a subgraph."""
        return _dicts(self.definition.get("inputs"))

    @cached_property
    def given(self) -> dict[str, object]:
        """Inputs of the node in a subgraph's place -> their links."""
        found: dict[str, object] = {}
        for one in _dicts(self.outer.get("inputs")):
            found.setdefault(str(one.get("name")), one.get("link"))
        return found

    @cached_property
    def shown(self) -> dict[tuple[str, str], Any]:
        """(the node within, "-1" for an input of the subgraph; the widget) -> its value at the node in the subgraph's place."""
        return dict(reversed(_shown(self.outer)))

    @cached_property
    def promoted(self) -> dict[str, list[tuple[str, Any]]]:
        """Nodes within -> their widgets' names and values that the node in the subgraph's place shows and changes."""
        found: dict[str, list[tuple[str, Any]]] = {}
        for (inner, name), value in _shown(self.outer) if self.around is not None else ():
            if value is not None:
                found.setdefault(inner, []).append((name, value))
        return found

    @cached_property
    def leaving(self) -> dict[int, object]:
        """Outputs of a subgraph -> the first link to each."""
        found: dict[int, object] = {}
        for one in _dicts(self.definition.get("links")):
            if str(one.get("target_id")) == _OUTPUTS and isinstance(slot := one.get("target_slot"), int):
                found.setdefault(slot, one.get("id"))
        return found


class _Value(NamedTuple):
    value: Any


def is_workflow(found: Mapping[str, Any]) -> bool:
    """Whether a graph has the editor's form."""
    return isinstance(found.get("nodes"), list)


def prompt_form(workflow: Mapping[str, Any]) -> dict[str, Any]:
    """The nodes that run, by their names: each with class_type and inputs."""
    return _Editor(workflow).nodes()


class _Editor:
    def __init__(self, workflow: Node) -> None:
        self._whole = _scope("", workflow, None, {})
        self._subgraphs = {str(one.get("id")): one for one in _dicts(_dict(workflow.get("definitions")).get("subgraphs"))}
        self._inner: dict[str, _Scope | None] = {}
        self._groups = _dict(_dict(workflow.get("extra")).get("groupNodes"))

    def nodes(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        scopes = [self._whole]
        for _ in range(_MOST_GRAPHS):
            if not scopes:
                break
            scope = scopes.pop()
            for name, node in scope.nodes.items():
                if node.get("mode") in (_MUTED, _BYPASSED) or _kind(node) in _VIRTUAL or len(made) == _MOST:
                    continue
                if (inner := self._within(scope, name)) is None:
                    made[scope.prefix + name] = {"class_type": _kind(node), "inputs": self._inputs(scope, node)}
                elif scope.prefix.count(":") < _DEEPEST:
                    scopes.append(inner)
        return made

    def _within(self, scope: _Scope, name: str) -> _Scope | None:
        """The graph that a node stands for; None for a plain node."""
        place = f"{scope.prefix}{name}:"
        if place not in self._inner:
            node = scope.nodes[name]
            definition = self._definition(node)
            self._inner[place] = None if definition is None else _scope(place, definition, scope, node)
        return self._inner[place]

    def _definition(self, node: Node) -> Node | None:
        kind = _kind(node)
        if kind in self._subgraphs or not kind.startswith(_GROUPS):
            return self._subgraphs.get(kind)
        group = _dict(self._groups.get(kind[len(_GROUPS[0]) :]))
        return _as_subgraph(group, node) if group else None

    def _inputs(self, scope: _Scope, node: Node) -> dict[str, Any]:
        found = dict(_widgets(node)) | dict(scope.promoted.get(str(node.get("id")), ()))
        for one in _dicts(node.get("inputs")):
            came = self._resolved(scope, one.get("link"), MOST)
            if came is not None:
                found[str(one.get("name"))] = came.value if isinstance(came, _Value) else came
        return found

    def _resolved(self, scope: _Scope, name: object, left: int) -> list[Any] | _Value | None:
        """What a link brings: [the node, its output], a value, or nothing."""
        link = scope.links.get(str(name)) if isinstance(name, int | str) else None
        if link is None or left == 0:
            return None
        if link.origin == _INPUTS and scope.around is not None:
            return self._from_outside(scope, link, left)
        node = scope.nodes.get(link.origin)
        if node is None or node.get("mode") == _MUTED:
            return None
        if _kind(node) == "PrimitiveNode":
            values = _list(node.get("widgets_values"))
            return _Value(values[0]) if values else None
        if node.get("mode") == _BYPASSED or _kind(node) in _VIRTUAL:
            return self._resolved(scope, _passed_on(scope, node, link), left - 1)
        inner = self._within(scope, link.origin)
        if inner is None:
            return [scope.prefix + link.origin, link.slot]
        return self._resolved(inner, inner.leaving.get(link.slot), left - 1)

    def _from_outside(self, scope: _Scope, link: _Link, left: int) -> list[Any] | _Value | None:
        """What the node in the subgraph's place is given, or its widget's value."""
        if scope.around is None or not 0 <= link.slot < len(scope.declared):
            return None
        name = str(scope.declared[link.slot].get("name"))
        given = scope.given.get(name)
        if given is not None:
            return self._resolved(scope.around, given, left - 1)
        value = scope.shown.get(("-1", name))
        return None if value is None else _Value(value)


def _scope(prefix: str, graph: Node, around: _Scope | None, outer: Node) -> _Scope:
    nodes = {str(node.get("id")): node for node in _dicts(graph.get("nodes"))}
    links = dict(filter(None, map(_link, _list(graph.get("links")))))
    return _Scope(prefix, nodes, links, graph, around, outer)


def _link(one: Any) -> tuple[str, _Link] | None:
    """The whole graph has lists, subgraphs have dicts."""
    names = ("id", "origin_id", "origin_slot", "target_id", "target_slot", "type")
    parts: list[Any] = list(map(_dict(one).get, names)) if isinstance(one, dict) else _list(one)
    if len(parts) < len(names) or not isinstance(parts[2], int):
        return None
    return str(parts[0]), _Link(str(parts[1]), parts[2], parts[5])


def _as_subgraph(group: Node, outer: Node) -> Node:
    """A group node in the form of a subgraph. Its links have places instead of names; what they leave open is the node's own."""
    inner = _dicts(group.get("nodes"))
    lines = [line for line in map(_list, _list(group.get("links"))) if len(line) >= _LINK and line[0] is not None]
    came = {f"{line[2]} {line[3]}": number for number, line in enumerate(lines)}
    external = [(_dict(one[0]).get("index", one[0]), one[1]) for one in map(_list, _list(group.get("external"))) if len(one) > 1]
    inside = [(line[0], line[1]) for line in lines if (line[0], line[1]) not in external]
    links: list[Node] = [
        {
            "id": number,
            "origin_id": line[0],
            "origin_slot": line[1],
            "type": line[-1],
            "target_id": line[2],
            "target_slot": line[3],
        }
        for number, line in enumerate(lines)
    ]
    row = _list(outer.get("widgets_values"))
    given = sum(len(_list(node.get("widgets_values"))) for node in inner) == len(row)
    names = [one.get("name") for one in _dicts(outer.get("inputs"))]
    nodes: list[Node] = []
    open_inputs = open_outputs = 0
    for place, node in enumerate(inner):
        inputs: list[Node] = []
        for slot, one in enumerate(_dicts(node.get("inputs"))):
            number = came.get(f"{place} {slot}")
            if number is None and not one.get("widget"):
                number = len(links)
                links.append(
                    {"id": number, "origin_id": _INPUTS, "origin_slot": open_inputs, "target_id": place, "target_slot": slot}
                )
                open_inputs += 1
            inputs.append({**one, "link": number})
        for slot, one in enumerate(_dicts(node.get("outputs"))):
            if (place, slot) not in inside:
                ends = {"target_id": _OUTPUTS, "target_slot": open_outputs, "type": one.get("type")}
                links.append({"id": len(links), "origin_id": place, "origin_slot": slot, **ends})
                open_outputs += 1
        own = _list(node.get("widgets_values"))
        values, row = (row[: len(own)], row[len(own) :]) if given else (own, row)
        nodes.append({**node, "id": place, "inputs": inputs, "widgets_values": values})
    return {"nodes": nodes, "links": links, "inputs": [{"name": name} for name in names]}


def _passed_on(scope: _Scope, node: Node, link: _Link) -> object:
    """The link that a bypassed node, a reroute or a named wire passes on."""
    source = scope.setters.get(_wire(node), cast("Node", {})) if _kind(node) == "GetNode" else node
    inputs = _list(source.get("inputs"))
    if node.get("mode") != _BYPASSED:
        return next((one.get("link") for one in inputs if isinstance(one, dict)), None)
    own = _dict(inputs[link.slot]) if 0 <= link.slot < len(inputs) else {}
    if own and own.get("type") == link.kind:
        return own.get("link")
    if id(source) not in scope.passing:
        scope.passing[id(source)] = {str(one.get("type")): one.get("link") for one in reversed(_dicts(inputs))}
    return scope.passing[id(source)].get(str(link.kind))


def _widgets(node: Node) -> Iterator[tuple[str, Any]]:
    """The values of a node's widgets by their names."""
    values = node.get("widgets_values")
    if isinstance(values, dict):
        yield from _dict(values).items()
        return
    row = _list(values)
    known = WIDGETS.get(_kind(node), "width height" if EMPTY.fullmatch(_kind(node)[:LONGEST_KIND]) else "")
    if not known:  # names that no node has
        yield from ((f"widget {at}", one) for at, one in enumerate(row) if isinstance(one, str))
        yield from ((f"lora_{at}", one) for at, one in enumerate(row) if "lora" in _dict(one))
        return
    for name in known.split():
        if not row:
            return
        yield name, row[0]
        row = row[2:] if name in _SEEDS and len(row) > 1 and _is_control(row[1]) else row[1:]


def _is_control(value: object) -> bool:
    """The first versions have True and False."""
    return isinstance(value, bool) or value in _AFTER


def _shown(outer: Node) -> list[tuple[tuple[str, str], Any]]:
    """((the node within, "-1" for an input of the subgraph; the widget), its value) of a subgraph's node, in order."""
    listed = _dict(outer.get("properties")).get("proxyWidgets")
    keys = [(str(one[0]), str(one[1])) for one in map(_list, _list(listed)) if len(one) > 1]
    if listed is None:
        keys = [("-1", str(one.get("name"))) for one in _dicts(outer.get("inputs")) if one.get("widget")]
    return list(zip(keys, _list(outer.get("widgets_values")), strict=False))


def _wire(node: Node) -> str:
    """The name of what a SetNode and its GetNodes pass on."""
    return str(_list(node.get("widgets_values"))[:1])


def _kind(node: Node) -> str:
    return str(node.get("type"))


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _dict(value: object) -> Node:
    return cast("Node", value) if isinstance(value, dict) else {}


def _dicts(value: object) -> list[Node]:
    return [_dict(one) for one in _list(value) if isinstance(one, dict)]
