# What a wheel holds beside python/fa2c: the two libraries. scikit-build-core configures with this (pyproject.toml) and installs the
# component `python`.
include(SelfContained)
fa2_self_contained(fa2_compiler fa2rt)
foreach(library fa2_compiler fa2rt)
  get_target_property(name ${library} OUTPUT_NAME)
  if(NOT name)
    set(name ${library})
  endif()
  # Under the name that the loader looks for: a wheel holds no links.
  install(PROGRAMS $<TARGET_FILE:${library}> DESTINATION fa2c RENAME lib${name}.so.0 COMPONENT python)
endforeach()
