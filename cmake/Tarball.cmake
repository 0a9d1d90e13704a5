# What people unpack who do not build: two tools, both libraries with their headers, and find_package's files, as the component `tarball`.
# scripts/tarball.sh makes and tries it.
include(SelfContained)
fa2_self_contained(fa2-compile fa2-run fa2_compiler fa2rt)
install(TARGETS fa2-compile fa2-run fa2_compiler fa2rt
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tarball EXCLUDE_FROM_ALL
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT tarball EXCLUDE_FROM_ALL)
foreach(header include/fa2/fa2.h runtime/include/fa2rt/fa2rt.h)
  get_filename_component(folder ${header} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT tarball EXCLUDE_FROM_ALL)
endforeach()
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/fa2Config.cmake ${CMAKE_CURRENT_BINARY_DIR}/fa2ConfigVersion.cmake
  DESTINATION ${fa2_config_dir} COMPONENT tarball EXCLUDE_FROM_ALL)
install(EXPORT fa2Targets NAMESPACE fa2:: DESTINATION ${fa2_config_dir} COMPONENT tarball EXCLUDE_FROM_ALL)
install(FILES LICENSE README.md CHANGELOG.md examples/launch.c DESTINATION . COMPONENT tarball EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR TXZ)
set(CPACK_THREADS 0)
set(CPACK_COMPONENTS_ALL tarball)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" CPACK_SYSTEM_NAME)
set(CPACK_PACKAGE_FILE_NAME fa2-${PROJECT_VERSION}-${CPACK_SYSTEM_NAME})
set(CPACK_ARCHIVE_TARBALL_FILE_NAME ${CPACK_PACKAGE_FILE_NAME})
# Built by name before: fa2-opt and fa2-translate are no part of it.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
include(CPack)
