"""Writes the one-step sigmas and timesteps that diffusers' EulerDiscreteScheduler derives.

python tests/engine/make_euler_cases.py > tests/engine/euler_cases.inc   (diffusers 0.39, torch 2.13)
"""
import json

from diffusers import EulerDiscreteScheduler

COMMON = dict(prediction_type="v_prediction", timestep_type="continuous")
SVD = dict(COMMON, beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear")
KARRAS = dict(SVD, use_karras_sigmas=True)
EXPONENTIAL = dict(SVD, use_exponential_sigmas=True)
COSINE = dict(COMMON, beta_schedule="squaredcos_cap_v2")

CASES = [
    dict(KARRAS, sigma_min=0.002, sigma_max=700.0, timestep_spacing="leading", steps_offset=1),
    dict(KARRAS, sigma_min=0.002, sigma_max=2.0, timestep_spacing="leading"),
    dict(KARRAS, sigma_min=None, sigma_max=None, timestep_spacing="leading"),
    dict(KARRAS, timestep_spacing="leading", steps_offset=1),
    dict(KARRAS, timestep_spacing="trailing"),
    dict(KARRAS, sigma_max=80.5, timestep_spacing="linspace"),
    dict(SVD, timestep_spacing="trailing"),
    dict(SVD, timestep_spacing="linspace"),
    dict(SVD, timestep_spacing="leading", steps_offset=5),
    dict(SVD, timestep_spacing="leading", steps_offset=5000),
    dict(SVD, timestep_spacing="trailing", sigma_min=0.002, sigma_max=700.0),
    dict(EXPONENTIAL, sigma_min=0.01, sigma_max=300.0),
    dict(EXPONENTIAL, timestep_spacing="trailing"),
    COMMON,
    dict(COMMON, timestep_spacing="trailing"),
    dict(COMMON, timestep_spacing="trailing", num_train_timesteps=50),
    dict(COMMON, num_train_timesteps=1),
    dict(COSINE, timestep_spacing="trailing"),
    dict(COSINE, timestep_spacing="leading", steps_offset=400),
    dict(COMMON, beta_start=0.001, beta_end=0.0135, timestep_spacing="leading", steps_offset=777),
]

for case in CASES:
    scheduler = EulerDiscreteScheduler(**case)
    scheduler.set_timesteps(1)
    sigma, last = scheduler.sigmas.tolist()
    assert last == 0
    print(f'{{R"({json.dumps(case)})", {sigma:.9g}, {scheduler.timesteps.item():.9g}}},')
