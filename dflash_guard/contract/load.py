"""interim"""
import yaml, hashlib, json
from pathlib import Path
from dflash_guard.contract.model import *
from dflash_guard.contract.catalog import *
from dflash_guard.contract.catalog import rules_for
from dataclasses import replace
def load_family(name):
    d=yaml.safe_load((Path(__file__).parent.parent.parent/'contracts'/'families'/f'{name}.yaml').read_text())
    blank=[]
    for b in d['blank']: blank += range(b[0],b[1]+1) if isinstance(b,list) else [b]
    t=lambda x: tuple(x)
    return Family(d['name'],d['vocab_size'],d['begin_turn'],d['end_turn'],d['end_text'],d['think_open'],d['think_close'],d['newline'],t(d['begin_ids']),d['mask_token'],{k:t(v) for k,v in d['roles'].items()},t(d['prompt_thinking']),t(d['prompt_off']),tuple(sorted(blank)),t(d['turn_texts']),t(d['control_texts']),t(d['thinking_tags']),d['system_first'],d['sampling'])
def load_contract(name,*,stage,mode=None,family=None,sets=(),ignore=()):
    fam=load_family(family or 'qwen3')
    mode=mode or 'thinking'
    rules={r.name: r.shipped(stage,fam) for r in rules_for(stage) if mode in r.modes}
    for i in ignore:
        if i in rules: rules[i]=replace(rules[i],ignored=True)
    for s in sets:
        k,v=s.split('='); n,f=k.rsplit('.',1); x=rules[n]
        if f=='level': rules[n]=replace(x,level=v)
        elif f=='tolerance': rules[n]=replace(x,tolerance=float(v))
        else: rules[n]=replace(x,bound={**x.bound,f:float(v)})
    return Contract(stage,'interim','sha256:0',stage,mode,fam,rules,aliases=dict(ALIASES))
